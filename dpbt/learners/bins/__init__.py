"""What the learners over the bins of a domain share, `oblivious` trees and `additive` models."""
