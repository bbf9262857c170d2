-- Pages of a rare model or outcome are found without reading all the others.
CREATE INDEX usage_model_created ON usage (model, created);
CREATE INDEX usage_outcome_created ON usage (outcome, created);
