from .original import Original as Original
