"""Private learners that are built from their repositories, and imported if they are on the path.

PrivaTree has its defaults. Those of S-BDT hardly learn, so some numbers are others of its authors'
search: of six settings they have the largest AUROC on banknote and magic at epsilons 0.1 and 1.
"""

from typing import Any

import numpy as np

from experiments.common import peers
from experiments.comparisons.methods import (
    Method,
    RowPredictions,
    Trial,
    fit_of_peer,
    setting_with_delta,
    setting_without_delta,
)
from experiments.comparisons.study import Study

DEPTH = 4
"""Of PrivaTree, as in the comparison of its repository."""

SETTING: dict[str, Any] = {
    "nb_trees": 150,
    "subsampling_ratio": 0.1,
    "learning_rate": 0.3,
    "max_depth": 5,
    "newton_boosting": True,
    "balance_partition": True,
    "lambda_reg_mode": 1,
    "l2_lambda": 15.0,
    "reg_delta": 2.0,
    "min_samples_split": 0,
    "ignore_split_constraints": True,
    "max_features": 0,
    "max_feature_values": 0,
    "criterion": 0,
    "reuse_attr": True,
    "use_dp": True,
    "privacy_budget_init_score_ratio": 0.1,
    "privacy_budget_gain_ratio": 0.5,
    "leaf_denom_noise_weight": 0.2,
    "l2_threshold": 0.5,
    "hess_l2_threshold": 1.0,
    "init_score_threshold": 1.0,
    "numeric_feature_weight": 1.0,
    "leaf_noise": 1,
    "use_privacy_filter": False,
    "approximate_privacy_filter": False,
    "pf_additional_nb_trees": 0,
    "pf_l2_threshold": 0.1,
    "pf_hess_l2_threshold": 1.0,
    "pf_subsampling_ratio_factor": 1.0,
    "additional_nb_trees": 0,
    "refine_splits_rounds": 0,
    "num_split_candidates": 32,
    "gradient_filtering": False,
    "leaf_clipping": False,
    "cyclical_feature_interactions": False,
    "refine_splits": False,
    "random_splits_from_candidates": True,
    "refine_splits_subsample": 1.0,
    "cut_off_leaf_denom": True,
    "custom_noise_scale": -1.0,
    "verbosity": 4,
    "feature_val_border": (0.0, 0.5),
    "continuous_learning": False,
    "scale_y": False,
}
"""Of S-BDT, whose constructor has none. Its delta, 5e-8, is compiled in, and its seed the time."""


def _scale_numbers(study: Study, rows: np.ndarray) -> np.ndarray:
    """Rows as S-BDT reads them: numbers in [0, 1/2], and the places of other values."""
    low, high = study.peer_rows.bounds.T
    return np.where(study.peer_rows.nominal, rows, (rows - low) / (high - low) / 2)


def _s_bdt(trial: Trial, rows: peers.Rows) -> peers.Fit:
    import sbdt  # pyright: ignore[reportMissingImports]

    columns = zip(rows.nominal, rows.bounds[:, 1], strict=True)
    values = [
        list(map(float, range(int(last) + 1))) if is_nominal else [] for is_nominal, last in columns
    ]
    model = sbdt.S_BDT(
        **SETTING,
        cat_idx=np.flatnonzero(rows.nominal).tolist(),
        cat_values=values,
        num_idx=np.flatnonzero(~rows.nominal).tolist(),
        task=b"BinaryClassification",
        privacy_budget=trial.epsilon,
    )
    scaled, label = _scale_numbers(trial.study, rows.numbers), rows.label.astype(float)

    def fit() -> Any:
        model.train(scaled, label, b"custom")
        return model

    return fit


def _predict_log_odds(study: Study, model: Any, rows: np.ndarray) -> RowPredictions:
    score = np.asarray(model.predict(_scale_numbers(study, rows)))
    return RowPredictions(score, 1 / (1 + np.exp(-score)))


def _privatree(trial: Trial, rows: peers.Rows) -> peers.Fit:
    from privatree.privatree import (  # pyright: ignore[reportMissingImports]
        PrivaTreeClassifier,
    )

    num_values = np.where(rows.nominal, rows.bounds[:, 1] + 1, 0).astype(int)
    model = PrivaTreeClassifier(
        max_depth=DEPTH,
        epsilon=trial.epsilon,
        feature_range=[*map(tuple, rows.bounds)],
        random_state=trial.split,
        categorical_features=num_values,
    )
    return lambda: model.fit(rows.numbers, rows.label)


def _predict_leaf_classes(study: Study, model: Any, rows: np.ndarray) -> RowPredictions:
    """Scores alone: leaves of PrivaTree have a class and no probability."""
    del study
    return RowPredictions(np.asarray(model.predict_proba(rows))[:, -1] - 0.5, None)


METHODS = {
    "s-bdt": Method(
        fit_of_peer(_s_bdt, _predict_log_odds),
        setting_with_delta("S_BDT: 150 trees of depth 5 on tenths of the rows"),
        library="S-BDT",
    ),
    "privatree": Method(
        fit_of_peer(_privatree, _predict_leaf_classes),
        setting_without_delta(f"PrivaTreeClassifier: defaults, depth {DEPTH}"),
        library="PrivaTree",
    ),
}
"""Name -> method, in the order of tables."""
