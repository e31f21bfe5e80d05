module peer

go 1.22

require (
	github.com/jackc/pgx/v5 v5.7.1
	github.com/riverqueue/river v0.14.3
	github.com/riverqueue/river/riverdriver/riverpgxv5 v0.14.3
	harness v0.0.0
)

replace harness => ../harness
