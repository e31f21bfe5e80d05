module peer

go 1.22

require (
	github.com/rabbitmq/amqp091-go v1.10.0
	harness v0.0.0
)

replace harness => ../harness
