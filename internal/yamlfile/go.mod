module github.com/slidegate/slidegate/internal/yamlfile

go 1.25.0

require github.com/goccy/go-yaml v1.19.2
