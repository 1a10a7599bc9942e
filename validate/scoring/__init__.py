"""Predicted against measured over many published runs: models, fits to a run's own rows, errors, and their report.

`score(cases, model, baselines, fit)` is the whole of it; `validate.scoring.models.MODELS` is the one table of models.
"""
