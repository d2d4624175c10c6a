"""Do programs compile for TPUs that are not there, do they fit, and what do they cost?"""
