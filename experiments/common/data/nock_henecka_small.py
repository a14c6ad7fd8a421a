"""The smaller domains of Nock & Henecka (2020), Table 2: transfusion to creditcard.

Bounds are round numbers from each data set's documentation and the nature of its quantities. None
is fitted to the rows. The paper does not say how labels with more than two values are made binary.
Here, unordered classes become the largest one against the rest, and ordered classes are cut near
the middle.
"""

import dataclasses
from functools import partial

from dpbt.data.domains import Boolean, Domain, Nominal, Numeric
from experiments.common.data.entry import (
    Entry,
    File,
    at_least,
    largest,
    numeric,
    page,
    uci,
    uci_url,
    words,
)
from experiments.common.data.reading import Layout, separated
from experiments.common.data.unpack import workbook

_TRANSFUSION = {
    "Recency (months)": (0, 60),
    "Frequency (times)": (0, 50),
    "Monetary (c.c. blood)": (0, 12500),  # 250 c.c. a donation
    "Time (months)": (0, 100),
}
_DONATED = "whether he/she donated blood in March 2007"

transfusion = Entry(
    name="transfusion",
    title="Blood Transfusion Service Center",
    page=page(176),
    citation="Yeh, Yang & Ting (2009)",
    files=(
        uci(
            "blood-transfusion/transfusion.data",
            "96c8e1091b9c037bcaf25a19b24b49d07771cd88689ffd273e056e9e8845ffe7",
        ),
    ),
    rows=748,
    rule="positive: donated in March 2007; the label has two values",
    domain=partial(numeric, _TRANSFUSION),
    layout=Layout((*_TRANSFUSION, _DONATED), _DONATED, {"1": True, "0": False}, header=True),
    note="Monetary is 250 x Frequency",
)

# Wavelet statistics; the documentation gives no bounds.
_BANKNOTE = {"variance": (-8, 8), "skewness": (-15, 15), "curtosis": (-6, 18), "entropy": (-9, 3)}

banknote = Entry(
    name="banknote",
    title="Banknote Authentication",
    page=page(267),
    citation="Lohweg (2012)",
    files=(
        uci(
            "00267/data_banknote_authentication.txt",
            "d0539aaed2139ba7a587b3e34fb345ce503ff7d5d33dbf9912d8e195ce425cb9",
        ),
    ),
    rows=1372,
    rule="positive: class 1; the label has two values",
    domain=partial(numeric, _BANKNOTE),
    layout=Layout((*_BANKNOTE, "class"), "class", {"1": True, "0": False}),
)

_CELLS = (
    "Clump Thickness",
    "Uniformity of Cell Size",
    "Uniformity of Cell Shape",
    "Marginal Adhesion",
    "Single Epithelial Cell Size",
    "Bare Nuclei",
    "Bland Chromatin",
    "Normal Nucleoli",
    "Mitoses",
)


def _breast_wisc(bins: int) -> Domain:
    return {name: Numeric(1, 10, bins, missing=name == "Bare Nuclei") for name in _CELLS}


breast_wisc = Entry(
    name="breast-wisc",
    title="Breast Cancer Wisconsin (Original)",
    page=page(15),
    citation="Wolberg (1992)",
    files=(
        uci(
            "breast-cancer-wisconsin/breast-cancer-wisconsin.data",
            "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
        ),
    ),
    rows=699,
    rule="positive: 4, malignant; the label has two values",
    domain=_breast_wisc,
    layout=Layout(("id", *_CELLS, "class"), "class", {"4": True, "2": False}),
    missing="'?' in Bare Nuclei (documented): a split of its own",
)

_PULSES = tuple(f"pulse {k} {part}" for k in range(1, 18) for part in ("real", "imaginary"))


def _ionosphere(bins: int) -> Domain:
    used = (
        name for name in _PULSES if name != "pulse 1 imaginary"
    )  # always 0, and not among the paper's 33
    return {name: Boolean() if name == "pulse 1 real" else Numeric(-1, 1, bins) for name in used}


ionosphere = Entry(
    name="ionosphere",
    title="Ionosphere, without its constant second column",
    page=page(52),
    citation="Sigillito et al. (1989)",
    files=(
        uci(
            "ionosphere/ionosphere.data",
            "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd",
        ),
    ),
    rows=351,
    rule="positive: g, good; the label has two values",
    domain=_ionosphere,
    layout=Layout((*_PULSES, "class"), "class", {"g": True, "b": False}),
)

_BANDS = tuple(f"band {k}" for k in range(1, 61))

sonar = Entry(
    name="sonar",
    title="Connectionist Bench (Sonar, Mines vs. Rocks)",
    page=page(151),
    citation="Sejnowski & Gorman",
    files=(
        uci(
            "undocumented/connectionist-bench/sonar/sonar.all-data",
            "e90434cdbf00fcf93ffa911fe447ae25606979658e60f1d32e155c3b5240234d",
        ),
    ),
    rows=208,
    rule="positive: M, mine; the label has two values",
    domain=partial(numeric, dict.fromkeys(_BANDS, (0, 1))),
    layout=Layout((*_BANDS, "class"), "class", {"M": True, "R": False}),
)

_SIGNALS = words("mcg gvh alm mit erl pox vac nuc")
_SITES = largest("CYT", "NUC", "MIT", "ME3", "ME2", "ME1", "EXC", "VAC", "POX", "ERL")

yeast = Entry(
    name="yeast",
    title="Yeast",
    page=page(110),
    citation="Nakai & Kanehisa (1991)",
    files=(
        uci("yeast/yeast.data", "7cf61776fc04f527f93bf57a327b863893a1225d82df02d457e8950173218258"),
    ),
    rows=1484,
    rule="positive: CYT, the largest of ten unordered classes, against the rest",
    domain=partial(numeric, dict.fromkeys(_SIGNALS, (0, 1))),
    layout=Layout(("sequence", *_SIGNALS, "site"), "site", _SITES, separated(None)),
    note="the file has 8 features, the paper's table 7; all 8 are used",
)

_WINE = {
    "fixed acidity": (3, 16),  # g/l of tartaric acid
    "volatile acidity": (0, 2),  # g/l of acetic acid
    "citric acid": (0, 1),  # g/l, as is residual sugar
    "residual sugar": (0, 45),  # from here on a wine is sweet
    "chlorides": (0, 0.5),  # g/l
    "free sulfur dioxide": (0, 100),  # mg/l
    "total sulfur dioxide": (0, 400),  # mg/l, the largest legal value
    "density": (0.98, 1.01),  # g/ml
    "pH": (2.5, 4.5),
    "sulphates": (0, 2),  # g/l
    "alcohol": (8, 15),  # percent by volume
}
_WINE_LAYOUT = Layout(
    (*_WINE, "quality"), "quality", at_least(6, range(11)), separated(";"), header=True
)
_WINE_RULE = "positive: quality of at least 6, above the middle of its scale of 0 to 10"

wine_red = Entry(
    name="wine-red",
    title="Wine Quality, red",
    page=page(186),
    citation="Cortez et al. (2009)",
    files=(
        uci(
            "wine-quality/winequality-red.csv",
            "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
        ),
    ),
    rows=1599,
    rule=_WINE_RULE,
    domain=partial(numeric, _WINE),
    layout=_WINE_LAYOUT,
)

wine_white = Entry(
    name="wine-white",
    title="Wine Quality, white",
    page=page(186),
    citation="Cortez et al. (2009)",
    files=(
        uci(
            "wine-quality/winequality-white.csv",
            "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
        ),
    ),
    rows=4898,
    rule=_WINE_RULE,
    domain=partial(numeric, _WINE),
    layout=_WINE_LAYOUT,
)

# Features 13 to 21: the histogram of the foetal heart rate, in beats a minute.
_HEART_RATE = {
    "Min": (50, 200),
    "Max": (50, 250),
    "Nmax": (0, 20),
    "Nzeros": (0, 10),
    "Mode": (50, 200),
    "Mean": (50, 200),
    "Median": (50, 200),
    "Variance": (0, 300),
    "Tendency": (-1, 1),
}
_BEFORE = words("LB AC FM UC DL DS DP ASTV MSTV ALTV MLTV Width")
_CTG_NAMES = (*_BEFORE, *_HEART_RATE, "CLASS", "NSP")

cardiotocography = Entry(
    name="cardiotocography",
    title="Cardiotocography, features 13 to 21",
    page=page(193),
    citation="Campos & Bernardes (2000)",
    files=(
        File(
            "CTG_data.csv",
            "328e7c0bdae051d6a0c23085e254f25d161638192fbcab52715dca74f658c3d8",
            uci_url("00193/CTG.xls"),
            unpack=partial(workbook, sheet="Data", header=1, names=_CTG_NAMES),
            download_sha256="58e98895589377b51f77fb6e0d1603417c86872a2d7638263039e0b7b9ca42c7",
        ),
    ),
    rows=2126,
    rule="positive: NSP 1, normal, the largest class, against suspect and pathologic",
    domain=partial(numeric, _HEART_RATE),
    layout=Layout(_CTG_NAMES, "NSP", largest("1", "2", "3"), header=True),
)

_CREDIT_NAMES = (
    *words("ID LIMIT_BAL SEX EDUCATION MARRIAGE AGE PAY_0 PAY_2 PAY_3 PAY_4 PAY_5 PAY_6"),
    *(f"BILL_AMT{k}" for k in range(1, 7)),
    *(f"PAY_AMT{k}" for k in range(1, 7)),
    "default_payment_next_month",
)


def _credit(bins: int) -> Domain:
    """Amounts in New Taiwan dollars; undocumented codes count as "others", the last documented
    one.
    """
    codes = {
        "SEX": Nominal(("1", "2")),
        "EDUCATION": Nominal(("1", "2", "3", "4"), other="4"),
        "MARRIAGE": Nominal(("1", "2", "3"), other="3"),
    }
    bounds = {"LIMIT_BAL": (0, 1_000_000), "AGE": (20, 80)}
    for name in _CREDIT_NAMES[6:-1]:
        if name.startswith("BILL"):
            bounds[name] = (0, 500_000)
        else:  # months of delay, or a payment
            bounds[name] = (0, 50_000) if name.startswith("PAY_AMT") else (-2, 9)
    ranges = numeric(bounds, bins)
    return {name: codes[name] if name in codes else ranges[name] for name in _CREDIT_NAMES[1:-1]}


creditcard = Entry(
    name="creditcard",
    title="Default of Credit Card Clients",
    page=page(350),
    citation="Yeh & Lien (2009)",
    files=(
        File(
            "UCI_Credit_Card.csv",
            "2d0560932c75d5d727818e77f6082d4eeb36b6a803d7dca2a6a1b23951e716ae",
            uci_url("00350/default of credit card clients.xls"),
            exact=False,
            unpack=partial(workbook, sheet=0, header=1, names=_CREDIT_NAMES),
        ),
    ),
    rows=30_000,
    rule="positive: defaults next month; the label has two values",
    domain=_credit,
    layout=Layout(
        _CREDIT_NAMES, "default_payment_next_month", {"1": True, "0": False}, header=True
    ),
)

creditcard_small = dataclasses.replace(
    creditcard,
    name="creditcard-small",
    title="Default of Credit Card Clients, first 1000 rows",
    rows=1000,
    first=True,
    folder="creditcard",
)
