module github.com/slidegate/slidegate/redisstore

go 1.25.0

require github.com/redis/rueidis v1.0.60

require golang.org/x/sys v0.31.0 // indirect
