package main

import (
	"sync"
	"time"

	"github.com/RussellLuo/slidingwindow"
)

// slidingWindow is github.com/RussellLuo/slidingwindow, one limiter per key in a sync.Map.
type slidingWindow struct {
	noClose
	window   time.Duration
	quota    int64
	limiters sync.Map // string to *slidingwindow.Limiter
}

func openSlidingWindow(s spec) (limiter, error) {
	return &slidingWindow{window: s.window, quota: s.quota}, nil
}

func (w *slidingWindow) Allow(key string) bool {
	l, ok := w.limiters.Load(key)
	if !ok {
		fresh, _ := slidingwindow.NewLimiter(w.window, w.quota, localWindow)
		l, _ = w.limiters.LoadOrStore(key, fresh)
	}
	return l.(*slidingwindow.Limiter).Allow()
}

func localWindow() (slidingwindow.Window, slidingwindow.StopFunc) {
	return slidingwindow.NewLocalWindow()
}
