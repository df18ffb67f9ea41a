"""The bytes of each protocol: what is sent, and what its answers must be.

http        requests of `POST /v1/enqueue`, one event or many
websocket   frames of `/v1/publish` and `/v1/subscribe`
redis       Redis Streams
nats        NATS JetStream
amqp        RabbitMQ
beanstalk   beanstalkd
answers     whether each event was answered once, in order
"""
