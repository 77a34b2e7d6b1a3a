"""A slow oracle that shares no code with the package, and random models to compare it with.

`integrals` integrates over unrecorded outcomes, `models` says what a model is, `generator` draws
models, `library` is the one module that knows the package from inside, `checks` compares, `fuzz`
draws models for as long as it is told to.
"""
