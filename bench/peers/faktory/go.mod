module peer

go 1.24

require (
	github.com/contribsys/faktory v1.9.3
	harness v0.0.0
)

replace harness => ../harness
