/* Boosted trees and random forests of Nock & Henecka (2020), in plain C for wide scans of readings.

`simulation.py` has what the numbers of a setting mean. This program shares no code with dpbt. It
gives no privacy: its noise is of doubles, and from a generator that is not a secure one. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 6
#define MAX_LEAVES (1 << MAX_DEPTH)
#define GRID 127
#define ZETA 1e-4
#define TINY_PRIOR 1e-6

enum { NO_CALIBRATION, BY_LEVEL, BY_OWN_LEAF, BY_TREE_SO_FAR };
enum { NOISE_ON_VALUE, NOISE_ON_SHARE, NOISE_ON_LEVERAGED_VALUE };

typedef struct {
  double alpha, link_alpha, clip, max_value, leaf_noise, split_epsilon[MAX_DEPTH], sensitivity;
  double first_link;
  int32_t rounds, depth, calibration, noise_on, is_beta_before_noise, is_step_of_tree, rows, unused;
} Setting;

/* Rows with bins [row][column], labels 0 or 1, and splits: bins of low..high of a column go right. */
typedef struct {
  int32_t num_rows, num_columns, num_bins, num_splits;
  const uint8_t *bins, *label;
  const int32_t *column, *low, *high;
} Table;

/* What a fit releases: splits [round][node] in heap order, leaf values and beta_t. */
typedef struct {
  int32_t *splits;
  double *values, *beta;
} Release;

/* xoshiro256**, with a state from splitmix64. */
typedef struct {
  uint64_t s[4];
} Random;

static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static uint64_t next_bits(Random *random) {
  uint64_t *s = random->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3], s[2] ^= t, s[3] = rotate(s[3], 45);
  return result;
}

static Random start_random(uint64_t seed) {
  Random random;
  for (int i = 0; i < 4; i++) {
    uint64_t z = seed += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    random.s[i] = z ^ (z >> 31);
  }
  return random;
}

/* Uniform in (0, 1). */
static double draw_uniform(Random *random) {
  return ((double)(next_bits(random) >> 11) + 0.5) * 0x1p-53;
}

static double draw_laplace(Random *random) {
  double u = draw_uniform(random) - 0.5;
  return u < 0 ? log1p(2 * u) : -log1p(-2 * u);
}

static double clamp(double x, double bound) { return fmin(fmax(x, -bound), bound); }

/* The canonical link of M-alpha. */
static double link_of(double alpha, double share) {
  double d = 2 * share - 1, sign = (d > 0) - (d < 0);
  return alpha * d / sqrt(share * (1 - share)) + 2 * (1 - alpha) * sign;
}

/* Class weights as one number, so that one addition counts both: class 1 in the upper half. */
static uint64_t packed(uint8_t weight, uint8_t label) { return (uint64_t)weight << (label ? 32 : 0); }
static double positive(uint64_t counts) { return (double)(counts >> 32); }
static double negative(uint64_t counts) { return (double)(counts & 0xffffffffu); }
static double errors(uint64_t counts) { return fmin(positive(counts), negative(counts)); }

/* Memory of a fit that is used again by the next one. */
typedef struct {
  int32_t *order, *moved;
  uint8_t *weight;
  float *score, *link;
  uint64_t *level, *next_level, *prefix;
  double *cumulated;
} Memory;

static Memory allocate(const Table *table) {
  size_t rows = table->num_rows, cells = (size_t)table->num_columns * table->num_bins;
  Memory memory = {
      .order = malloc(rows * 4 + 8),
      .moved = malloc(rows * 4 + 8),
      .weight = malloc(rows),
      .score = malloc(rows * 4),
      .link = malloc(rows * 4),
      .level = malloc(cells * 8 * MAX_LEAVES / 2),
      .next_level = malloc(cells * 8 * MAX_LEAVES / 2),
      .prefix = malloc((cells + table->num_columns) * 8),
      .cumulated = malloc((size_t)table->num_splits * 8),
  };
  return memory;
}

static void release_memory(Memory *m) {
  free(m->order), free(m->moved), free(m->weight), free(m->score), free(m->link);
  free(m->level), free(m->next_level), free(m->prefix), free(m->cumulated);
}

/* Count the class weights of some rows by column and bin. */
static void count_cells(const Table *table, const Memory *m, int start, int end, uint64_t *cells) {
  int columns = table->num_columns, bins = table->num_bins;
  memset(cells, 0, (size_t)columns * bins * 8);
  for (int i = start; i < end; i++) {
    int row = m->order[i];
    uint64_t counts = packed(m->weight[row], table->label[row]), *of_column = cells;
    const uint8_t *bin = table->bins + (size_t)row * columns;
    for (int c = 0; c < columns; c++, of_column += bins) of_column[bin[c]] += counts;
  }
}

static uint64_t counts_of_split(const Table *table, const uint64_t *prefix, int split) {
  const uint64_t *of_column = prefix + (size_t)table->column[split] * (table->num_bins + 1);
  return of_column[table->high[split] + 1] - of_column[table->low[split]];
}

/* Equation (15): draw a split of a node, or take the best one where epsilon is infinite. */
static int draw_split(const Table *table, const Setting *setting, Memory *m, Random *random,
                      uint64_t total, double alpha, double epsilon) {
  double best = -INFINITY, curved = 2 * alpha, flat = 2 * (1 - alpha);
  double w1 = positive(total), w0 = negative(total);
  int chosen = 0;
  for (int s = 0; s < table->num_splits; s++) {
    uint64_t right = counts_of_split(table, m->prefix, s);
    double r1 = positive(right), r0 = negative(right), l1 = w1 - r1, l0 = w0 - r0;
    double risk = curved * (sqrt(r1 * r0) + sqrt(l1 * l0)) + flat * (fmin(r1, r0) + fmin(l1, l0));
    m->cumulated[s] = -risk;
    if (-risk > best) best = -risk, chosen = s;
  }
  if (isinf(epsilon)) return chosen;
  double bound = fmax(3, 1 + 2 + 2 * alpha * (sqrt((double)setting->rows) - 1)), sum = 0;
  if (setting->sensitivity > 0) bound = setting->sensitivity;
  float exponent = (float)(epsilon / (2 * bound) / GRID);
  for (int s = 0; s < table->num_splits; s++) {
    sum += expf((float)(m->cumulated[s] - best) * exponent);
    m->cumulated[s] = sum;
  }
  double place = draw_uniform(random) * sum;
  for (chosen = 0; chosen < table->num_splits - 1 && m->cumulated[chosen] < place; chosen++);
  return chosen;
}

/* Draw the splits of a tree. `start` becomes the places of the leaves' rows in the order, and
   `totals` their class weights. */
static void grow(const Table *table, const Setting *setting, Memory *m, Random *random,
                 int num_train, int *start, uint64_t *totals, int32_t *splits) {
  size_t cells = (size_t)table->num_columns * table->num_bins;
  double root_errors = 1, tree_errors = 0;
  start[0] = 0, start[1] = num_train, totals[0] = 0;
  for (int i = 0; i < num_train; i++)
    totals[0] += packed(m->weight[m->order[i]], table->label[m->order[i]]);
  for (int level = 0; level < setting->depth; level++) {
    int nodes = 1 << level, next_start[MAX_LEAVES + 1];
    uint64_t next_totals[MAX_LEAVES];
    double level_errors = 0;

    /* The cells of every node: one child is counted, and the other is the difference. */
    if (level == 0) count_cells(table, m, 0, num_train, m->level);
    for (int parent = 0; level > 0 && parent < nodes / 2; parent++) {
      int left = 2 * parent, right = left + 1;
      int is_left_smaller = 2 * start[right] <= start[left] + start[right + 1];
      int counted = is_left_smaller ? left : right, other = is_left_smaller ? right : left;
      uint64_t *few = m->next_level + counted * cells, *rest = m->next_level + other * cells;
      count_cells(table, m, start[counted], start[counted + 1], few);
      for (size_t k = 0; k < cells; k++) rest[k] = m->level[parent * cells + k] - few[k];
    }
    if (level > 0) {
      uint64_t *exchanged = m->level;
      m->level = m->next_level, m->next_level = exchanged;
    }

    /* Equation (16). */
    for (int node = 0; node < nodes; node++) level_errors += errors(totals[node]);
    tree_errors = level_errors;
    if (level == 0) root_errors = fmax(level_errors, 1);

    for (int node = 0; node < nodes; node++) {
      double alpha = setting->alpha, calibrated[] = {0, level_errors, errors(totals[node]), tree_errors};
      if (setting->calibration != NO_CALIBRATION)
        alpha = level == 0 ? 1 : calibrated[setting->calibration] / root_errors;
      for (int c = 0; c < table->num_columns; c++) {
        uint64_t sum = 0, *prefix = m->prefix + (size_t)c * (table->num_bins + 1);
        const uint64_t *of_column = m->level + node * cells + (size_t)c * table->num_bins;
        prefix[0] = 0;
        for (int b = 0; b < table->num_bins; b++) prefix[b + 1] = sum += of_column[b];
      }
      int split = draw_split(table, setting, m, random, totals[node], alpha,
                             setting->split_epsilon[level]);
      uint64_t right = counts_of_split(table, m->prefix, split);
      splits[nodes - 1 + node] = split;
      next_totals[2 * node] = totals[node] - right, next_totals[2 * node + 1] = right;
      tree_errors += errors(right) + errors(totals[node] - right) - errors(totals[node]);

      /* Rows of the left child stay in front. */
      int kept = start[node], moved = 0, column = table->column[split];
      for (int i = start[node]; i < start[node + 1]; i++) {
        int row = m->order[i], bin = table->bins[(size_t)row * table->num_columns + column];
        int goes_right = (table->low[split] <= bin) & (bin <= table->high[split]);
        m->order[kept] = row, m->moved[moved] = row;
        kept += !goes_right, moved += goes_right;
      }
      memcpy(m->order + kept, m->moved, (size_t)moved * 4);
      next_start[2 * node] = start[node], next_start[2 * node + 1] = kept;
      next_start[2 * node + 2] = start[node + 1];
    }
    memcpy(start, next_start, sizeof(int) * (2 * nodes + 1));
    memcpy(totals, next_totals, sizeof(uint64_t) * 2 * nodes);
  }
}

/* The leaf values that a tree predicts, leveraged; `values` and `beta` are what is released. */
static void value_leaves(const Setting *setting, Random *random, const uint64_t *totals,
                         int num_train, double *leveraged, double *values, double *beta) {
  int leaves = 1 << setting->depth;
  double w1[2 * MAX_LEAVES], w0[2 * MAX_LEAVES], share[2 * MAX_LEAVES];
  double edge = 0, largest = 0, exact[MAX_LEAVES], alpha = setting->link_alpha, clip = setting->clip;

  /* Shares of class 1; an empty leaf has that of its parent. */
  for (int leaf = 0; leaf < leaves; leaf++) {
    w1[leaves + leaf] = positive(totals[leaf]) / GRID;
    w0[leaves + leaf] = negative(totals[leaf]) / GRID;
  }
  for (int node = leaves - 1; node > 0; node--)
    w1[node] = w1[2 * node] + w1[2 * node + 1], w0[node] = w0[2 * node] + w0[2 * node + 1];
  for (int node = 1; node < 2 * leaves; node++) {
    double of_parent = node == 1 ? 0.5 : share[node / 2];
    share[node] = (w1[node] + TINY_PRIOR * of_parent) / (w1[node] + w0[node] + TINY_PRIOR);
  }

  /* Values with noise, and the edge of Step 2.2. */
  for (int leaf = 0; leaf < leaves; leaf++) {
    double q = share[leaves + leaf];
    double value = link_of(alpha, fmin(fmax(q, ZETA), 1 - ZETA));
    exact[leaf] = clamp(value, setting->max_value);
    if (setting->noise_on == NOISE_ON_SHARE) {
      q += setting->leaf_noise * draw_laplace(random);
      value = link_of(alpha, fmin(fmax(q, ZETA), 1 - ZETA));
    } else {
      value = exact[leaf];
      if (setting->noise_on == NOISE_ON_VALUE) value += setting->leaf_noise * draw_laplace(random);
    }
    values[leaf] = clamp(value, clip);
    double of_step = setting->is_beta_before_noise ? exact[leaf] : values[leaf];
    edge += (w1[leaves + leaf] - w0[leaves + leaf]) * of_step;
    largest = fmax(largest, fabs(of_step));
  }
  double bound = setting->is_step_of_tree ? fmax(largest, clip / 100) : clip;
  *beta = alpha / (bound * bound) * clamp(edge / num_train, bound);

  for (int leaf = 0; leaf < leaves; leaf++) {
    leveraged[leaf] = *beta * values[leaf];
    if (setting->noise_on == NOISE_ON_LEVERAGED_VALUE) {
      double value = clamp(leveraged[leaf], alpha) + setting->leaf_noise * draw_laplace(random);
      values[leaf] = leveraged[leaf] = clamp(value, alpha);
    }
  }
}

/* Move the scores of the rows of a leaf, and set their weights by equation (13). */
static void reweigh(const Table *table, const Setting *setting, Memory *m, int row, float moved) {
  int is_step_form = !isnan(setting->first_link), label = table->label[row];
  float alpha = (float)setting->link_alpha, z;
  m->score[row] += moved;
  if (is_step_form) z = m->link[row] + (label ? -moved : moved);
  else z = label ? -m->score[row] : m->score[row];
  float beyond = fabsf(z) / 2 - (1 - alpha), part = 0;
  if (beyond > 0) part = beyond / sqrtf(alpha * alpha + beyond * beyond);
  float weight = (1 + (z > 0 ? part : -part)) / 2;
  if (is_step_form) m->link[row] = beyond > 0 ? z : (float)setting->first_link;
  m->weight[row] = (uint8_t)fminf(fmaxf(rintf(weight * GRID), 1), GRID);
}

static void fit(const Table *table, const Setting *setting, Memory *m, const int32_t *train,
                int num_train, const int32_t *test, int num_test, uint64_t seed, Release release) {
  Random random = start_random(seed);
  int inner = (1 << setting->depth) - 1, leaves = inner + 1, columns = table->num_columns;
  for (int row = 0; row < table->num_rows; row++) {
    m->score[row] = 0, m->weight[row] = (GRID + 1) / 2;
    m->link[row] = isnan(setting->first_link) ? 0 : (float)setting->first_link;
  }
  for (int t = 0; t < setting->rounds; t++) {
    int start[MAX_LEAVES + 1];
    uint64_t totals[MAX_LEAVES];
    double leveraged[MAX_LEAVES];
    int32_t *splits = release.splits + (size_t)t * inner;
    memcpy(m->order, train, (size_t)num_train * 4);
    grow(table, setting, m, &random, num_train, start, totals, splits);
    value_leaves(setting, &random, totals, num_train, leveraged,
                 release.values + (size_t)t * leaves, release.beta + t);
    for (int leaf = 0; leaf < leaves; leaf++)
      for (int i = start[leaf]; i < start[leaf + 1]; i++)
        reweigh(table, setting, m, m->order[i], (float)leveraged[leaf]);
    for (int i = 0; i < num_test; i++) {
      const uint8_t *bins = table->bins + (size_t)test[i] * columns;
      int node = 0;
      for (int level = 0; level < setting->depth; level++) {
        int split = splits[node], bin = bins[table->column[split]];
        node = 2 * node + 1 + ((table->low[split] <= bin) & (bin <= table->high[split]));
      }
      m->score[test[i]] += (float)leveraged[node - inner];
    }
  }
}

/* One fit on some rows, with what it releases and the scores of all rows. */
void boost_once(const Table *table, const Setting *setting, const int32_t *train, int num_train,
                const int32_t *test, int num_test, uint64_t seed, Release release, float *scores) {
  Memory memory = allocate(table);
  fit(table, setting, &memory, train, num_train, test, num_test, seed, release);
  memcpy(scores, memory.score, (size_t)table->num_rows * 4);
  release_memory(&memory);
}

/* Test errors [setting][fold] of the first folds. */
void boost(const Table *table, const int32_t *fold, int num_folds, const Setting *settings,
           int num_settings, uint64_t seed, float *test_errors) {
  Memory memory = allocate(table);
  int32_t *train = malloc((size_t)table->num_rows * 4), *test = malloc((size_t)table->num_rows * 4);
  for (int f = 0; f < num_folds; f++) {
    int num_train = 0, num_test = 0;
    for (int row = 0; row < table->num_rows; row++)
      if (fold[row] == f) test[num_test++] = row;
      else train[num_train++] = row;
    for (int s = 0; s < num_settings; s++) {
      const Setting *setting = settings + s;
      size_t leaves = (size_t)setting->rounds << setting->depth;
      Release release = {malloc(leaves * 4), malloc(leaves * 8), malloc((size_t)setting->rounds * 8)};
      uint64_t number = (seed * 1000003 + (uint64_t)s) * 131 + (uint64_t)f;
      fit(table, setting, &memory, train, num_train, test, num_test, number, release);
      int wrong = 0;
      for (int i = 0; i < num_test; i++)
        wrong += (memory.score[test[i]] > 0) != table->label[test[i]];
      test_errors[(size_t)s * num_folds + f] = (float)wrong / (float)num_test;
      free(release.splits), free(release.values), free(release.beta);
    }
  }
  free(train), free(test), release_memory(&memory);
}

typedef struct {
  double leaf_epsilon;
  int32_t depth, is_exponential;
} Forest;

/* Test errors [forest][fold] of random forests of section 17.2. A position is that of a bin in the
   range of an attribute, [attribute][256]. A negative noisy count is read as 0. */
void forests(const Table *table, const int32_t *fold, int num_folds, const int32_t *column_of_attribute,
             const float *positions, int num_attributes, int num_trees, const Forest *settings,
             int num_settings, uint64_t seed, float *test_errors) {
  uint8_t *leaf_of_row = malloc(table->num_rows);
  int32_t *votes = malloc((size_t)table->num_rows * 4);
  for (int f = 0; f < num_folds; f++)
    for (int s = 0; s < num_settings; s++) {
      const Forest *forest = settings + s;
      Random random = start_random((seed * 1000003 + (uint64_t)s) * 131 + (uint64_t)f);
      int inner = (1 << forest->depth) - 1, leaves = inner + 1, wrong = 0, num_test = 0;
      memset(votes, 0, (size_t)table->num_rows * 4);
      for (int t = 0; t < num_trees; t++) {
        int attribute[MAX_LEAVES], vote[MAX_LEAVES];
        float threshold[MAX_LEAVES];
        double counts[MAX_LEAVES][2] = {{0}};
        for (int node = 0; node < inner; node++) {
          attribute[node] = (int)(draw_uniform(&random) * num_attributes);
          threshold[node] = (float)draw_uniform(&random);
        }
        for (int row = 0; row < table->num_rows; row++) {
          const uint8_t *bins = table->bins + (size_t)row * table->num_columns;
          int node = 0;
          for (int level = 0; level < forest->depth; level++) {
            int asked = attribute[node];
            float position = positions[asked * 256 + bins[column_of_attribute[asked]]];
            node = 2 * node + 1 + (position > threshold[node]);
          }
          leaf_of_row[row] = (uint8_t)(node - inner);
          if (fold[row] != f) counts[node - inner][table->label[row]]++;
        }
        for (int leaf = 0; leaf < leaves; leaf++) {
          double epsilon = forest->leaf_epsilon;
          if (forest->is_exponential) {
            double difference = counts[leaf][1] - counts[leaf][0];
            vote[leaf] = draw_uniform(&random) < 1 / (1 + exp(-epsilon * difference / 2));
          } else {
            double noisy_1 = fmax(counts[leaf][1] + draw_laplace(&random) / epsilon, 0);
            double noisy_0 = fmax(counts[leaf][0] + draw_laplace(&random) / epsilon, 0);
            vote[leaf] = noisy_1 + noisy_0 > 0 ? noisy_1 > noisy_0 : draw_uniform(&random) > 0.5;
          }
        }
        for (int row = 0; row < table->num_rows; row++)
          votes[row] += vote[leaf_of_row[row]] ? 1 : -1;
      }
      for (int row = 0; row < table->num_rows; row++)
        if (fold[row] == f) num_test++, wrong += (votes[row] > 0) != table->label[row];
      test_errors[(size_t)s * num_folds + f] = (float)wrong / (float)num_test;
    }
  free(leaf_of_row), free(votes);
}
