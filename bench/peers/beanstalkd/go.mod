module peer

go 1.22

require harness v0.0.0

replace harness => ../harness
