"""Figure 1: the advantage of each round on Adult, and the histogram of margins."""

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from paper_figures.asadi_2022.by_epsilon import saved
from paper_figures.style import CALIBRATIONS, DASHES, bars_of, finish, legend_below, sheet


def draw() -> Figure:
    """A line for each calibration: the mean over keys, between the least and the most.

    Raises:
        InputError: if the advantages have not been aggregated.
    """
    advantages, histogram = saved("advantages"), saved("histogram")
    about = advantages[0]
    figure, (left, right) = sheet(1, 2, 3)
    for k, (name, shade) in enumerate(CALIBRATIONS.items()):
        own = [line for line in advantages if line["calibration"] == name]
        columns = ("round", "mean", "least", "most")
        rounds, mean, least, most = ([line[column] for line in own] for column in columns)
        left.plot(rounds, mean, color=shade, linestyle=DASHES[k], linewidth=0.9, label=name)
        left.fill_between(rounds, least, most, color=shade, alpha=0.15, linewidth=0)
        bars = [line for line in histogram if line["calibration"] == name]
        width = (bars[0]["high"] - bars[0]["low"]) / 2
        places = [line["low"] + k * width for line in bars]
        shares = [100 * line["share"] for line in bars]
        right.bar(places, shares, width, align="edge", label=name, **bars_of(k))
    gamma = about["gamma"]
    left.axhline(gamma, color="black", linewidth=0.8, label=f"gamma = {gamma:g}")
    left.axhline(0, color="0.7", linewidth=0.8)
    left.axvline(250, color="black", linewidth=0.8, linestyle=":", label="the text's 250 rounds")
    legend_below(figure, left, 4)
    right.legend()
    right.xaxis.set_major_locator(MultipleLocator(0.5))
    finish(left, xlabel="round", ylabel="advantage, mean over keys")
    finish(right, xlabel="margin y H / T of training rows", ylabel="% of rows")
    figure.suptitle(
        f"LazyBB with 1-rules on Adult: epsilon = {about['epsilon']:g}, "
        f"kappa = {about['density']:g}, "
        f"lambda = gamma / 4, T = {about['rounds']}, {about['keys']} keys"
    )
    return figure
