module peer

go 1.22

require (
	github.com/nats-io/nats.go v1.37.0
	harness v0.0.0
)

replace harness => ../harness
