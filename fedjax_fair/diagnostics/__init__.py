"""What training does that accuracies do not show: methods that watch and change nothing, and what to read off them."""

from fedjax_fair.diagnostics.consistency import consistency, same_way, sign_histogram, watch_masks, watch_signs

__all__ = ['consistency', 'same_way', 'sign_histogram', 'watch_masks', 'watch_signs']
