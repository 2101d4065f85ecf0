module github.com/slidegate/slidegate

go 1.26.0

require (
	github.com/dunglas/httpsfv v1.1.2
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)
