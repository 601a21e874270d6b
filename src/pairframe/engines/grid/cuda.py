"""`SupportKernel` on a GPU: the same sums between two supports, by the Triton passes of `pairframe.tiled.grid_softmin`."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from pairframe.types import Bool, Float

if TYPE_CHECKING:
    from torch import Tensor


def why_not(device: str) -> str | None:
    """None when the grid engine can run on `device`, e.g. "cuda" or "cuda:1", else the reason why not."""
    if device != "cuda" and not device.startswith("cuda:"):
        return "the grid engine runs on the CPU and on CUDA devices"
    missing = [name for name in ("torch", "triton") if find_spec(name) is None]
    if missing:
        return f"it needs {' and '.join(missing)}: pip install 'pairframe[triton]'"
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found == 0:
        return "torch finds no CUDA device on this machine"
    number = device.partition(":")[2]
    if number and not (number.isdecimal() and int(number) < found):
        return f"this machine has {found} CUDA device(s), numbered from 0"
    return None


class CudaKernel:
    """Sums over `support_in` seen from `support_out`; see `SupportKernel`, which it replaces call by call.

    Vectors come and go as numpy arrays; only the two boxes around the supports live on the device.

    Parameters
    ----------
    support_in, support_out : (H, W) bool
        Neither may be empty.
    epsilon : float
        Work px^2.
    dtype : {"float64", "float32"}
        Of the exponentials; exponents are always float64.
    device : str
        "cuda", "cuda:1", ...; "cpu" only in triton's interpreter.
    """

    def __init__(
        self, support_in: Bool, support_out: Bool, epsilon: float, dtype: str = "float64", device: str = "cuda"
    ) -> None:
        import torch

        rows_in, cols_in = np.nonzero(support_in)
        rows_out, cols_out = np.nonzero(support_out)
        corner_in = np.array([rows_in.min(), cols_in.min()])
        corner_out = np.array([rows_out.min(), cols_out.min()])
        self.n_in, self.n_out = len(rows_in), len(rows_out)
        self._in_hw = int(np.ptp(rows_in)) + 1, int(np.ptp(cols_in)) + 1
        self._out_hw = int(np.ptp(rows_out)) + 1, int(np.ptp(cols_out)) + 1
        in_box = (rows_in - corner_in[0]) * self._in_hw[1] + cols_in - corner_in[1]
        out_box = (rows_out - corner_out[0]) * self._out_hw[1] + cols_out - corner_out[1]
        self._index_in = torch.from_numpy(in_box).to(device)
        self._index_out = torch.from_numpy(out_box).to(device)
        self._offset_yx = int(corner_out[0] - corner_in[0]), int(corner_out[1] - corner_in[1])
        self._epsilon = epsilon
        self._fast_exp = dtype == "float32"
        self._log_in = torch.full((1, *self._in_hw), -torch.inf, dtype=torch.float64, device=device)

    def log_sum(self, log_weight: Float) -> Float:
        """``log sum_j exp(log_weight_j - |x_i - x_j|^2 / eps)``: (n_in,) -> (n_out,); -inf where nothing is seen."""
        return self.log_sum_and_means(log_weight, np.empty((0, self.n_in)))[0]

    def log_sum_and_means(self, log_weight: Float, channels: Float) -> tuple[Float, Float]:
        """The log-sums (n_out,), and with the same weights the averages of `channels` (c, n_in) as (c, n_out)."""
        from pairframe.tiled import grid_softmin

        self._log_in.view(-1)[self._index_in] = self._on_device(log_weight)
        phi = self._log_in.new_zeros((1, len(channels), *self._in_hw))
        phi[0].flatten(1)[:, self._index_in] = self._on_device(channels)
        log_sum, means = grid_softmin.log_sum_and_means(
            self._log_in,
            phi,
            self._epsilon,
            out_hw=self._out_hw,
            offset_yx=self._offset_yx,
            fast_exp=self._fast_exp,
        )
        wanted = self._index_out
        return log_sum.view(-1)[wanted].cpu().numpy(), means[0].flatten(1)[:, wanted].cpu().numpy()

    def forget(self) -> None:
        """See `SupportKernel.forget`; nothing is remembered."""

    def release_large_buffers(self) -> None:
        """See `SupportKernel.release_large_buffers`; there are none."""

    def _on_device(self, values: Float) -> Tensor:
        import torch

        return torch.from_numpy(np.array(values, dtype=np.float64)).to(self._log_in.device)
