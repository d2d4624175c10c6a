"""How the engine itself behaves: recipes beside FedAvg, growth, sweeps and second starts."""
