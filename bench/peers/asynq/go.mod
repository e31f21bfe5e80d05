module peer

go 1.22

require (
	github.com/hibiken/asynq v0.25.1
	harness v0.0.0
)

replace harness => ../harness
