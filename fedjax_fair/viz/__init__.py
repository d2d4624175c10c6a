"""All drawing, with one palette and one look; matplotlib is imported only when something is drawn."""

from fedjax_fair.viz import style
from fedjax_fair.viz.canvas import draw_image, image_grid, new_figure, save

__all__ = ['draw_image', 'image_grid', 'new_figure', 'save', 'style']
