"""What has to be said beside the figures."""

HOW_MEASURED = """\
**How.** Two synthetic embryos, one objective for everybody: squared Euclidean cost, kl penalties, the product reference of masses
divided by sqrt(M_a M_b), which POT, OTT-JAX and GeomLoss can all be given exactly; float64. Each contestant lives in a process of
its own. First it finds, outside the clock, the least effort (iterations, or rungs of an epsilon ladder, in steps of a fifth to a
half) after which *our* certificate, computed from its potentials alone, has both the relative gap and the marginal error within
the accuracy; the best constant between its potentials is added free of charge. Stopping tests are off as far as the library allows:
OTT-JAX still looks once in 10 iterations, about a tenth of its time; POT's is negligible. Then all take turns and are timed from masses to
potentials with exactly that effort; every timed run is certified again. Cells are medians (min–max, number of runs). "> 12": not there
after a run of 12 s, with the error that this run ended at. "–": not timed; "met": it got there."""

WHAT_DIFFERS = """\
**What differs, fairly.** POT, OTT-JAX, GeomLoss and plain torch work on points, as run here with a stored n x m matrix;
OTT-JAX (`batch_size`) and GeomLoss (KeOps) can do without, at n x m work. They solve other problems than images too; what pairframe's
grid engine uses, a separable kernel and a pyramid, needs pixels on a grid. POT runs scalings, not logarithms: at little blur they
underflow, and its potentials are then no answer at all. Its `sinkhorn_stabilized` is not raced: it adds 1e-16 to sums that are smaller than that
here (900 points, blur 8 px, 600 iterations: a plan that is off by 5 %, by everything once it absorbs). OTT-JAX runs on its point cloud, recentred, without
momentum; its epsilon schedule and its Anderson option are not used, and its `Grid` gives wrong sums where pixels have no mass. GeomLoss
is one sweep down an epsilon ladder, meant for a fast answer of moderate accuracy, and has no way to go on at the last epsilon: more digits take a finer ladder; its own debiased loss is
another number, so debiasing is off. Without KeOps it has only its `tensorized` backend. All of them also run on GPUs, which this machine
has not. With our acceleration around POT's and OTT's own iterations (`backend="pot"`, `"ott"`) they are faster: see [engines](engines.md)."""
