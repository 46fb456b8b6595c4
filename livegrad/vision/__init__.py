"""Images: networks, transforms, data sets, boxes, pictures."""
