"""Windows over signals, images and volumes: convolution, pooling, resampling."""
