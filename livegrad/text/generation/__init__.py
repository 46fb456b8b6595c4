"""Text written by models."""

from livegrad.text.generation.decoding import Decoding as Decoding, Generating as Generating
