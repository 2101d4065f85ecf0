module github.com/slidegate/slidegate/config

go 1.25.0

require (
	github.com/go-jose/go-jose/v4 v4.1.7
	github.com/goccy/go-yaml v1.19.2
)
