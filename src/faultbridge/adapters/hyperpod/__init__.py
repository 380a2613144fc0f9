"""SageMaker HyperPod: clusters, the nodes in them, their repair and their volumes."""
