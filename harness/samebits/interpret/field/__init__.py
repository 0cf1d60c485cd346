"""The domain of random elements of finite fields: equal formulas give equal elements."""
