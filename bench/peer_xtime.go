package main

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rateMutex is golang.org/x/time/rate in the way most programs keep it: one map of limiters behind one mutex.
type rateMutex struct {
	noClose
	rate  rate.Limit
	burst int

	mu       sync.Mutex
	limiters map[string]*rate.Limiter
}

func openRateMutex(s spec) (limiter, error) {
	return &rateMutex{rate: perSecond(s), burst: int(s.quota), limiters: map[string]*rate.Limiter{}}, nil
}

// perSecond is the rate that refills the quota in one window.
func perSecond(s spec) rate.Limit {
	return rate.Limit(float64(s.quota) * float64(time.Second) / float64(s.window))
}

func (m *rateMutex) Allow(key string) bool {
	m.mu.Lock()
	l, ok := m.limiters[key]
	if !ok {
		l = rate.NewLimiter(m.rate, m.burst)
		m.limiters[key] = l
	}
	m.mu.Unlock()
	return l.Allow()
}

// rateSyncMap is golang.org/x/time/rate in a sync.Map.
type rateSyncMap struct {
	noClose
	rate     rate.Limit
	burst    int
	limiters sync.Map // string to *rate.Limiter
}

func openRateSyncMap(s spec) (limiter, error) {
	return &rateSyncMap{rate: perSecond(s), burst: int(s.quota)}, nil
}

func (m *rateSyncMap) Allow(key string) bool {
	l, ok := m.limiters.Load(key)
	if !ok {
		l, _ = m.limiters.LoadOrStore(key, rate.NewLimiter(m.rate, m.burst))
	}
	return l.(*rate.Limiter).Allow()
}
