package main

import (
	"github.com/didip/tollbooth/v8"
	tollboothlimiter "github.com/didip/tollbooth/v8/limiter"
)

// tollboothLimiter is github.com/didip/tollbooth, called through LimitReached, its cheapest public way to decide about a key.
type tollboothLimiter struct {
	noClose
	limiter *tollboothlimiter.Limiter
}

func openTollbooth(s spec) (limiter, error) {
	l := tollbooth.NewLimiter(float64(perSecond(s)), nil).SetBurst(int(s.quota))
	return &tollboothLimiter{limiter: l}, nil
}

func (t *tollboothLimiter) Allow(key string) bool { return !t.limiter.LimitReached(key) }
