"""Text that stands beside the figures on the page."""

HOW_MEASURED = """\
**Method.** Two synthetic embryos and one objective for all contestants, in float64: squared Euclidean cost, `kl` penalties
(the default of 0.1.0; now it is `partial`, which the peers do not solve), and the product reference of masses divided by
sqrt(M_a M_b), which POT, OTT-JAX and GeomLoss can all be given exactly. Each contestant runs in its own process. First it finds, untimed, the least effort (iterations, or rungs of an epsilon ladder, in steps of a fifth to a
half) at which *our* certificate, computed from its potentials alone, puts both the relative gap and the marginal error within the
accuracy; the best constant between its potentials is added free of charge. Stopping tests are off as far as the library allows:
OTT-JAX still tests every 10 iterations, which costs about a tenth of its time; POT's test costs almost nothing. Then all take turns and
are timed from masses to potentials with exactly that effort, and every timed run is certified again. Cells are medians (min–max,
number of runs). "> 12" means that the accuracy was not reached in a run of 12 s; the last column gives the error at its end. "–" means
not timed, "met" that the accuracy was reached."""

WHAT_DIFFERS = """\
**In fairness to the peers.** POT, OTT-JAX, GeomLoss and plain torch work on points and are run here with a stored n x m matrix;
OTT-JAX (`batch_size`) and GeomLoss (KeOps) can avoid storing it, at the same n x m cost. They also solve other problems than images,
while pairframe's grid engine relies on a separable kernel and a pyramid, which need pixels on a grid. POT uses scalings rather than
logarithms: with little blur they underflow, and its potentials are then no answer at all. Its `sinkhorn_stabilized` is left out because it
adds 1e-16 to sums that are smaller than that here (900 points, blur 8 px, 600 iterations: a plan that is off by 5 %, and
entirely wrong once it absorbs). OTT-JAX runs on its point cloud, recentred, without momentum; its epsilon schedule and its Anderson option are not
used, and its `Grid` gives wrong sums where pixels have no mass. GeomLoss makes one sweep down an epsilon ladder, meant for a fast
answer of moderate accuracy, and cannot continue at the last epsilon: more digits take a finer ladder. Its own debiased loss is a
different number, so debiasing is off. Without KeOps it has only its `tensorized` backend. All of them also run on GPUs, which this machine
does not have. With our acceleration around POT's and OTT's own iterations (`backend="pot"`, `"ott"`) they are faster: see [engines](engines.md)."""
