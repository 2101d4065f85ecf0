module github.com/slidegate/slidegate/redisstore/goredis

go 1.25.0

require github.com/redis/go-redis/v9 v9.12.1

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
