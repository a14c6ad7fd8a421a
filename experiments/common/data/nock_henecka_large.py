"""The larger domains of Nock & Henecka (2020), Table 2: abalone to eeg.

Bounds and classes are declared as in `nock_henecka_small`.
"""

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
from experiments.common.data.unpack import uncompress, workbook

# Lengths in units of 200 mm, weights in units of 200 g.
_ABALONE = {
    "length": (0, 1),
    "diameter": (0, 1),
    "height": (0, 0.5),
    "whole weight": (0, 3),
    "shucked weight": (0, 1.5),
    "viscera weight": (0, 1),
    "shell weight": (0, 1),
}


def _abalone(bins: int) -> Domain:
    return {"sex": Nominal(("M", "F", "I")), **numeric(_ABALONE, bins)}


abalone = Entry(
    name="abalone",
    title="Abalone",
    page=page(1),
    citation="Nash et al. (1994)",
    files=(
        uci(
            "abalone/abalone.data",
            "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
        ),
    ),
    rows=4177,
    rule="positive: at least 10 rings, near the documented mean of 9.9",
    domain=_abalone,
    layout=Layout(("sex", *_ABALONE, "rings"), "rings", at_least(10, range(1, 30))),
)

_COUNT, _FEW, _PRESENCE = (
    (0, 20),
    (0, 5),
    None,
)  # counts of atoms or groups, counts of rare ones, and yes or no
_QSAR = {
    "SpMax_L": (0, 10),
    "J_Dz(e)": (0, 10),
    "nHM": _COUNT,
    "F01[N-N]": _FEW,
    "F04[C-N]": _COUNT,
    "NssssC": _COUNT,
    "nCb-": _COUNT,
    "C%": (0, 100),
    "nCp": _COUNT,
    "nO": _COUNT,
    "F03[C-N]": _COUNT,
    "SdssC": (-5, 5),
    "HyWi_B(m)": (0, 10),
    "LOC": (0, 5),
    "SM6_L": (0, 15),
    "F03[C-O]": _COUNT,
    "Me": (0.9, 1.4),  # mean electronegativity and ionisation potential, relative to carbon
    "Mi": (0.9, 1.4),
    "nN-N": _FEW,
    "nArNO2": _FEW,
    "nCRX3": _FEW,
    "SpPosA_B(p)": (0, 2),
    "nCIR": _COUNT,
    "B01[C-Br]": _PRESENCE,
    "B03[C-Cl]": _PRESENCE,
    "N-073": _FEW,
    "SpMax_A": (0, 3),  # the largest eigenvalue of a molecular graph
    "Psi_i_1d": (-1, 1),
    "B04[C-Br]": _PRESENCE,
    "SdO": (0, 100),
    "TI2_L": (0, 20),
    "nCrt": _FEW,
    "C-026": _COUNT,
    "F02[C-N]": _COUNT,
    "nHDon": (0, 10),
    "SpMax_B(m)": (0, 15),
    "Psi_i_A": (0, 6),
    "nN": (0, 10),
    "SM6_B(m)": (0, 15),
    "nArCOOR": _FEW,
    "nX": _COUNT,
}


def _qsar(bins: int) -> Domain:
    return {
        name: Boolean() if pair is _PRESENCE else Numeric(pair[0], pair[1], bins)
        for name, pair in _QSAR.items()
    }


qsar = Entry(
    name="qsar",
    title="QSAR Biodegradation",
    page=page(254),
    citation="Mansouri et al. (2013)",
    files=(
        uci("00254/biodeg.csv", "c66ac1a23aba11fb166fd5054fea14ac97b8e4f7e4940ae679dc863d1cc4b3c9"),
    ),
    rows=1055,
    rule="positive: RB, ready biodegradable; the label has two values",
    domain=_qsar,
    layout=Layout((*_QSAR, "class"), "class", {"RB": True, "NRB": False}, separated(";")),
)

# Blocks of a scanned page, in pixels; a line of text is some ten pixels high and at most a page
# wide.
_BLOCK = {
    "height": (0, 50),
    "lenght": (0, 600),
    "area": (0, 10_000),
    "eccen": (0, 60),
    "p_black": (0, 1),
    "p_and": (0, 1),
    "mean_tr": (0, 10),
    "blackpix": (0, 3000),
    "blackand": (0, 5000),
    "wb_trans": (0, 500),
}

page_blocks = Entry(
    name="page-blocks",
    title="Page Blocks Classification",
    page=page(78),
    citation="Malerba (1995)",
    files=(
        File(
            "page-blocks.data",
            "52058b6e19ba797b5e80ae6454ebb3b7a25016787e668dd3203393c236d22c78",
            uci_url("page-blocks/page-blocks.data.Z"),
            exact=False,
            unpack=uncompress,
        ),
    ),
    rows=5473,
    rule="positive: 1, text, the largest class, against lines, graphics and pictures",
    domain=partial(numeric, _BLOCK),
    layout=Layout((*_BLOCK, "class"), "class", largest("1", "2", "3", "4", "5"), separated(None)),
)

_PROTEINS = words("""
    DYRK1A ITSN1 BDNF NR1 NR2A pAKT pBRAF pCAMKII pCREB pELK pERK pJNK PKCA pMEK pNR1 pNR2A pNR2B
    pPKCAB pRSK AKT BRAF CAMKII CREB ELK ERK GSK3B JNK MEK TRKA RSK APP Bcatenin SOD1 MTOR P38
    pMTOR DSCR1 AMPKA NR2B pNUMB RAPTOR TIAM1 pP70S6 NUMB P70S6 pGSK3B pPKCG CDK5 S6 ADARB1
    AcetylH3K9 RRP1 BAX ARC ERBB4 nNOS Tau GFAP GluR3 GluR4 IL1B P3525 pCASP9 PSD95 SNCA Ubiquitin
    pGSK3B_Tyr216 SHH BAD BCL2 pS6 pCFOS SYP H3AcK18 EGR1 H3MeK4 CaNA
""")
# The documentation gives no bounds. Signals are relative to a control: of the order of 1, and
# several times that for the receptors, kinases and scaffolds that are abundant in synapses.
_ABUNDANT = words("NR1 NR2A pNR2B PSD95 pCAMKII pPKCAB pPKCG ERK pELK Bcatenin")
_MICE = {f"{name}_N": (0, 6) if name in _ABUNDANT else (0, 1.5) for name in _PROTEINS}
_MICE_NAMES = ("MouseID", *_MICE, "Genotype", "Treatment", "Behavior", "class")

mice = Entry(
    name="mice",
    title="Mice Protein Expression",
    page=page(342),
    citation="Higuera et al. (2015)",
    files=(
        File(
            "Data_Cortex_Nuclear.csv",
            "1d6722b089db85dccfcb84d62e7299dcffd17b41223c3da54321890b63fff7ad",
            uci_url("00342/Data_Cortex_Nuclear.xls"),
            unpack=partial(workbook, sheet=0, header=0, names=_MICE_NAMES),
            download_sha256="c02dc1a5a9c03b32405d6ca80b0cf23233acd84577e7941ca3286d9522ef8cd0",
        ),
    ),
    rows=1080,
    rule=(
        "positive: genotype Ts65Dn, against Control; the disease, of the three factors behind"
        " the eight classes"
    ),
    domain=partial(numeric, _MICE, missing=True),
    layout=Layout(
        _MICE_NAMES, "Genotype", {"Ts65Dn": True, "Control": False}, header=True, missing=""
    ),
    missing="an empty cell, possible for every protein: a split of its own",
    note="15 rows come from each of 72 mice",
)

# Heights of a landscape of any size; the documentation gives no bounds.
_POINTS = {f"X{k}": (0, 100_000) for k in range(1, 101)}


def _hill_valley(name: str, files: tuple[File, File], noise: str) -> Entry:
    return Entry(
        name=name,
        title=f"Hill-Valley, {noise} noise",
        page=page(166),
        citation="Graham & Oppacher (2008)",
        files=files,
        rows=1212,
        rule="positive: 1, hill; the label has two values",
        domain=partial(numeric, _POINTS),
        layout=Layout((*_POINTS, "class"), "class", {"1": True, "0": False}, header=True),
        note="the paper uses training and testing files together",
    )


hill_valley_noise = _hill_valley(
    "hill-valley-noise",
    (
        uci(
            "hill-valley/Hill_Valley_with_noise_Training.data",
            "aef62398c3a215452bcf4ce5c6a87207a3dc8e79631ef87a6eda6fe3896bc966",
        ),
        uci(
            "hill-valley/Hill_Valley_with_noise_Testing.data",
            "d7276840d9e4327f362269baca8af5e68ae1336052e57c95bde7b150669e4871",
            exact=False,
        ),
    ),
    "with",
)
hill_valley_nonoise = _hill_valley(
    "hill-valley-nonoise",
    (
        uci(
            "hill-valley/Hill_Valley_without_noise_Training.data",
            "af232ff5258abeb5b1c61974648fd00bc0d37a545de33a2c3493692fc20330d5",
        ),
        uci(
            "hill-valley/Hill_Valley_without_noise_Testing.data",
            "2d36201a54f6e8de6bd5dad99391c1a9754b95a3364c3461567795302882902f",
            exact=False,
        ),
    ),
    "without",
)

_STROKES = tuple(f"stroke {k}" for k in range(1, 17))


def _clave_cells(line: str) -> list[str]:
    """Twenty flags; the file of the source says "error fixed" after some of its lines."""
    cells = line.split()
    return cells[:-2] if cells[-2:] == ["error", "fixed"] else cells


firmteacher = Entry(
    name="firmteacher",
    title="Firm Teacher Clave Direction Classification",
    page=page(324),
    citation="Vurkaç (2011)",
    files=(
        uci(
            "00324/ClaveVectors_Firm-Teacher_Model.txt",
            "7073f78d452e5df7bc956ff25a76d1d8fe1d3e9ceee35a7c0833ba5c7944b3e7",
            exact=False,
        ),
    ),
    rows=10_800,
    rule="positive: forward clave, the largest class, against the rest; the flag alone "
    "decides: the two rows without a class are in the rest, and the two rows with two classes "
    "count by it",
    domain=lambda bins: dict.fromkeys(_STROKES, Boolean()),
    layout=Layout(
        (*_STROKES, "neutral", "reverse clave", "forward clave", "incoherent"),
        "forward clave",
        {"1": True, "0": False},
        _clave_cells,
    ),
)

_SHOWER = {
    "fLength": (0, 300),  # axes of an ellipse, mm
    "fWidth": (0, 150),
    "fSize": (2, 5),  # log10 of the number of photons
    "fConc": (0, 1),
    "fConc1": (0, 1),
    "fAsym": (-250, 250),  # mm, as are the next two
    "fM3Long": (-250, 250),
    "fM3Trans": (-100, 100),
    "fAlpha": (0, 90),  # degrees
    "fDist": (0, 500),  # mm
}

magic = Entry(
    name="magic",
    title="MAGIC Gamma Telescope",
    page=page(159),
    citation="Bock (2004)",
    files=(
        uci(
            "magic/magic04.data", "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a"
        ),
    ),
    rows=19_020,
    rule="positive: g, gamma; the label has two values",
    domain=partial(numeric, _SHOWER),
    layout=Layout((*_SHOWER, "class"), "class", {"g": True, "h": False}),
)

_ELECTRODES = dict.fromkeys(  # microvolts; the device's offset is about 4300
    words("AF3 F7 F3 FC5 T7 P7 O1 O2 P8 T8 FC6 F4 F8 AF4"), (3900, 4700)
)

eeg = Entry(
    name="eeg",
    title="EEG Eye State",
    page=page(264),
    citation="Rösler (2013)",
    files=(
        uci(
            "00264/EEG Eye State.arff",
            "693c689be416df0b487b45b5b58a44896fbcd0be72b4ef161d5cc34e2c66c928",
            False,
        ),
    ),
    rows=14_980,
    rule="positive: 1, eyes closed; the label has two values",
    domain=partial(numeric, _ELECTRODES),
    layout=Layout((*_ELECTRODES, "eyes"), "eyes", {"1": True, "0": False}, comments=("@", "%")),
    note=("rows are in time order, so random folds share moments; a few rows are gross outliers"),
)
