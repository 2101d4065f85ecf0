package goredis_test

import (
	"testing"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
)

func TestNoClient(t *testing.T) {
	if _, err := goredis.New(nil, redisstore.Options{}); err == nil {
		t.Error("got no error without a client")
	}
}
