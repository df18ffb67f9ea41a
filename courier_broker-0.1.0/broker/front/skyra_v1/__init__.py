"""Skyra over gRPC, version 1, as messages and a service.

skyra.proto      the source: what goes over the line
skyra_pb2        the messages, built from it
skyra_pb2_grpc   the stub of a client, built from it
"""
