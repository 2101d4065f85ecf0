package main

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// floorTable measures the parts that every decision consists of, which no limiter can avoid.
func (r *run) floorTable() *table {
	ops, read := 1<<22, 64<<20
	if r.quick {
		ops, read = 1<<16, 1<<20
	}
	t := &table{title: "Floor: what a decision is made of", columns: []string{"part", "ns"}}
	base := time.Now()
	t.add("reading the clock (time.Since)", nanos(perOp(ops, func() {
		for range ops {
			sink += uint64(time.Since(base))
		}
	})))
	var word atomic.Uint64
	t.add("an uncontended compare-and-swap", nanos(perOp(ops, func() {
		for i := range uint64(ops) {
			word.CompareAndSwap(i, i+1)
		}
	})))
	chain := randomChain(read / 8)
	t.add(fmt.Sprintf("a random read over %d MB, each waiting for the one before", read>>20), nanos(perOp(ops, func() {
		at := uint64(0)
		for range ops {
			at = chain[at]
		}
		sink += at
	})))
	list := newKeys(0, 1<<12).uniform(1<<16, 1)
	t.add("this harness, around a limiter that does nothing", nanos(perOp(ops, func() {
		sink += uint64(drive(noLimiter{}, list, 0, ops))
	})))
	t.note("A decision about a hot key reads the clock once and swaps one word; with many keys it also waits for memory once.")
	return t
}

// sink keeps the compiler from removing what is measured.
//
//lint:ignore U1000 it is only written to
var sink uint64

// perOp returns the median of five times that f takes, per operation, in nanoseconds.
func perOp(ops int, f func()) float64 {
	var times []float64
	for range 5 {
		watch := startWatch(1)
		f()
		times = append(times, float64(watch.elapsed())/float64(ops))
	}
	return median(times)
}

// randomChain returns a list in which each element is the index of the next, in one cycle through all of them.
func randomChain(n int) []uint64 {
	chain := make([]uint64, n)
	for i := range chain {
		chain[i] = uint64(i)
	}
	r := rand.New(rand.NewPCG(1, 4))
	for i := n - 1; i > 0; i-- { // Sattolo's shuffle makes a single cycle.
		j := r.IntN(i)
		chain[i], chain[j] = chain[j], chain[i]
	}
	return chain
}
