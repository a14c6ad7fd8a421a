"""The data sets of the other papers: Asadi et al. (2022) and Bojarski et al. (2014).

Bounds and categories come from the documentation, or are round numbers. None is fitted to the rows.
"""

import dataclasses
from functools import partial

from dpbt.data.domains import Boolean, Domain, Nominal, Numeric
from experiments.common.data.entry import (
    Entry,
    File,
    largest,
    nominal,
    numeric,
    page,
    uci,
    uci_url,
    words,
)
from experiments.common.data.reading import Layout, libsvm, separated
from experiments.common.data.unpack import untar

_ADULT_NUMBERS = {
    "age": (15, 90),
    "fnlwgt": (0, 500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 50_000),
    "capital-loss": (0, 5000),
    "hours-per-week": (0, 100),
}
_ADULT_WORDS = {
    "workclass": (
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay "
        "Never-worked ?"
    ),
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th "
    "12th Masters "
    "1st-4th 10th Doctorate 5th-6th Preschool",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed "
    "Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
    "Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv "
    "Protective-serv Armed-Forces ?",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany "
    "Outlying-US(Guam-USVI-etc)"
    " India "
    "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam"
    " Mexico Portugal Ireland "
    "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala "
    "Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands ?",
}
_ADULT = words(
    "age workclass fnlwgt education education-num marital-status occupation relationship "
    "race sex capital-gain "
    "capital-loss hours-per-week native-country"
)


def _adult(bins: int) -> Domain:
    columns = {**numeric(_ADULT_NUMBERS, bins), **nominal(_ADULT_WORDS)}
    return {name: columns[name] for name in _ADULT}


adult = Entry(
    name="adult",
    title="Adult (Census Income)",
    page=page(2),
    citation="Becker & Kohavi (1996)",
    files=(
        uci("adult/adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
        uci("adult/adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
    ),
    rows=48_842,
    rule="positive: income above 50K; the label has two values (with a full stop in the test file)",
    domain=_adult,
    layout=Layout(
        (*_ADULT, "income"),
        "income",
        {">50K": True, "<=50K": False, ">50K.": True, "<=50K.": False},
        comments=("|",),
    ),
    missing="'?' in workclass, occupation and native-country: a value of its own",
)

_MUSHROOM = {
    "cap-shape": "b c x f k s",
    "cap-surface": "f g y s",
    "cap-color": "n b c g r p u e w y",
    "bruises": "t f",
    "odor": "a l c y f m n p s",
    "gill-attachment": "a d f n",
    "gill-spacing": "c w d",
    "gill-size": "b n",
    "gill-color": "k n b h g r o p u e w y",
    "stalk-shape": "e t",
    "stalk-root": "b c u e z r ?",
    "stalk-surface-above-ring": "f y k s",
    "stalk-surface-below-ring": "f y k s",
    "stalk-color-above-ring": "n b c g o p e w y",
    "stalk-color-below-ring": "n b c g o p e w y",
    "veil-type": "p u",
    "veil-color": "n o w y",
    "ring-number": "n o t",
    "ring-type": "c e f l n p s z",
    "spore-print-color": "k n b h r o u w y",
    "population": "a c n s v y",
    "habitat": "g l m p u w d",
}

mushroom = Entry(
    name="mushroom",
    title="Mushroom",
    page=page(73),
    citation="Schlimmer (1987)",
    files=(
        uci(
            "mushroom/agaricus-lepiota.data",
            "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
        ),
    ),
    rows=8124,
    rule="positive: p, poisonous; the label has two values",
    domain=lambda bins: nominal(_MUSHROOM),
    layout=Layout(("class", *_MUSHROOM), "class", {"p": True, "e": False}),
    missing="'?' in stalk-root: a value of its own",
    note="veil-type is always p",
)

_COD_RNA = {
    "energy": (-1500, 0),
    "length": (50, 150),
}  # ten times the free energy, and that of the shorter sequence
_COD_RNA |= {
    f"frequency of {base} in {which}": (0, 0.5) for which in ("first", "second") for base in "AUC"
}


def _cod_rna_file(name: str, sha256: str, packed: str) -> File:
    """The same rows, as text or compressed."""
    url = f"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/{name}"
    return File(name, sha256, url, exact=False, copies={f"{name}.gz": packed})


cod_rna = Entry(
    name="cod-rna",
    title="Cod-RNA, of the LIBSVM page",
    page="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html",
    citation="Uzilov, Keegan & Mathews (2006)",
    files=(
        _cod_rna_file(
            "cod-rna",
            "65b7cc0689fc29bba5db8b50fab0b6446d985f4bf8f6f5dd474f7df8b2f1ab6c",
            "27867970f79e7200c161c9c1d7489b560afc18674e5553eb1342e9e252358123",
        ),
        _cod_rna_file(
            "cod-rna.t",
            "58cff16df896436b06343df78ccaef37a6979d819abbcadbec3cb16b93938df6",
            "90fe5ea9f04a8cf91a0c3315b03e7d21225acfec7b55f620d2991aa55abf66e5",
        ),
    ),
    rows=331_152,
    rule="positive: 1, non-coding RNA; the label has two values",
    domain=lambda bins: numeric(_COD_RNA, bins),
    layout=Layout(("class", *_COD_RNA), "class", {"1": True, "-1": False}, libsvm(8)),
    licence="not stated",
    note="the paper cross-validates on the 59,535 rows that are not test rows",
)

_VOTES = words(
    "handicapped-infants water-project-cost-sharing adoption-of-the-budget-resolution "
    "physician-fee-freeze "
    "el-salvador-aid religious-groups-in-schools anti-satellite-test-ban "
    "aid-to-nicaraguan-contras mx-missile "
    "immigration synfuels-corporation-cutback education-spending superfund-right-to-sue "
    "crime duty-free-exports "
    "export-administration-act-south-africa"
)

voting = Entry(
    name="voting",
    title="Congressional Voting Records",
    page=page(105),
    citation="Schlimmer (1987)",
    files=(
        uci(
            "voting-records/house-votes-84.data",
            "c87c14110a5ba91d4a1e313ec7392824458152bf071fa5f5452340488337936e",
        ),
    ),
    rows=435,
    rule="positive: republican; the label has two values",
    domain=lambda bins: nominal(dict.fromkeys(_VOTES, "y n ?")),
    layout=Layout(("party", *_VOTES), "party", {"republican": True, "democrat": False}),
    missing="none: '?' is the third answer, neither yea nor nay",
)


def _mammographic(bins: int) -> Domain:
    return {
        "BI-RADS": Numeric(
            1, 5, bins, missing=True
        ),  # documented as 1 to 5: a 55 in the file is as good as 5
        "age": Numeric(0, 100, bins, missing=True),
        "shape": Nominal(("1", "2", "3", "4", "?")),
        "margin": Nominal(("1", "2", "3", "4", "5", "?")),
        "density": Numeric(1, 4, bins, missing=True),
    }


mammographic = Entry(
    name="mammographic",
    title="Mammographic Mass",
    page=page(161),
    citation="Elter (2007)",
    files=(
        uci(
            "mammographic-masses/mammographic_masses.data",
            "072051c896fb14f8f25c64eed30ba1333290af41e6c9ffad4e1ca573daa865a8",
        ),
    ),
    rows=961,
    rule="positive: 1, malignant; the label has two values",
    domain=_mammographic,
    layout=Layout((*_mammographic(2), "severity"), "severity", {"1": True, "0": False}),
    missing="'?' in every column: a split or a value of its own",
    note=(
        "BI-RADS is an assessment of the same picture, not a measurement; the paper's 6 "
        "attributes count the label"
    ),
)

_TERRAIN = {
    "elevation": (1800, 4000),  # m
    "aspect": (0, 360),  # degrees
    "slope": (0, 60),  # degrees
    "horizontal distance to hydrology": (0, 1500),  # m, as are all distances
    "vertical distance to hydrology": (-200, 600),
    "horizontal distance to roadways": (0, 7000),
    "hillshade 9am": (0, 255),
    "hillshade noon": (0, 255),
    "hillshade 3pm": (0, 255),
    "horizontal distance to fire points": (0, 7000),
}
_COVER_FLAGS = (
    *(f"wilderness area {k}" for k in range(1, 5)),
    *(f"soil type {k}" for k in range(1, 41)),
)

covertype_full = Entry(
    name="covertype-full",
    title="Covertype",
    page=page(31),
    citation="Blackard (1998)",
    files=(
        File(
            "covtype.data.gz",
            # as scikit-learn publishes it
            "614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
            uci_url("covtype/covtype.data.gz"),
            exact=False,
        ),
    ),
    rows=581_012,
    rule=(
        "positive: 2, lodgepole pine, the largest of seven unordered classes, against the "
        "rest (as LIBSVM has it)"
    ),
    domain=lambda bins: {**numeric(_TERRAIN, bins), **dict.fromkeys(_COVER_FLAGS, Boolean())},
    layout=Layout(
        (*_TERRAIN, *_COVER_FLAGS, "type"), "type", largest("2", "1", "3", "4", "5", "6", "7")
    ),
    licence="CC BY 4.0, with the copyright notice of J. A. Blackard and Colorado State University",
    folder="covertype",
)

covertype = dataclasses.replace(
    covertype_full,
    name="covertype",
    title="Covertype, 20,000 of its 581,012 rows",
    files=(
        File(
            "covtype-min.data",
            "80558f267915e67c46115a120c6e4c3a002846c307aa21bc9a574bac8d8d65cf",
            "",
            exact=False,
        ),
    ),
    rows=20_000,
    note="rows drawn at random without repeats: not to be compared with results on the full set",
    unavailable="this sample of rows is not at the source; the data set covertype-full is",
)

_PHYSICS = tuple(f"feature {k}" for k in range(1, 79))
_PARTLY_MEASURED = {20, 21, 22, 29, 44, 45, 46, 55}


def _quantum(bins: int) -> Domain:
    """Neither meaning nor range of a feature is documented; that eight of them can be missing
    is.
    """
    return {
        name: Numeric(-10, 10, bins, k in _PARTLY_MEASURED)
        for k, name in enumerate(_PHYSICS, start=1)
    }


quantum = Entry(
    name="quantum",
    title="Particle physics task of KDD Cup 2004, its training file",
    page="https://www.kdd.org/kdd-cup/view/kdd-cup-2004/Data",
    citation="Caruana, Joachims & Backstrom (2004)",
    files=(
        File(
            "phy_train.dat",
            "",
            "https://www.kdd.org/cupfiles/KDDCupData/2004/data_kddcup04.tar.gz",
            exact=False,
            unpack=partial(untar, member="phy_train.dat"),
        ),
    ),
    rows=50_000,
    rule="positive: 1; the label has two values",
    domain=_quantum,
    layout=Layout(
        ("id", "target", *_PHYSICS),
        "target",
        {"1": True, "0": False},
        separated(None),
        missing_numbers=(999, 9999),
    ),
    missing="999 and 9999 in eight features: a split of its own",
    licence="not stated",
    note=(
        "no copy was at hand: the format is tested on made-up rows, sha256 and bounds are not"
        " checked"
    ),
)
