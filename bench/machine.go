package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// machine describes what the figures were measured on.
func machine() string {
	return fmt.Sprintf("%s, %d cores, %s %s/%s. Absolute numbers are of this machine; ratios within a table are what counts.",
		cpuModel(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// cpuModel returns the processor's name where the system tells it.
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for line := range strings.Lines(string(info)) {
		name, value, found := strings.Cut(line, ":")
		if found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// footprint is the memory in use, without garbage.
type footprint struct {
	heap     int64 // bytes of live objects
	resident int64 // bytes that the process holds of the machine's memory; 0 where the system does not tell
}

// measureMemory collects the garbage and looks at what is left.
func measureMemory() footprint {
	runtime.GC() // The first one also lets finalizers run; what they held is garbage only to the next one.
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return footprint{heap: int64(stats.HeapAlloc), resident: residentBytes()}
}

// less returns what came to be in use since before.
func (f footprint) less(before footprint) footprint {
	return footprint{heap: f.heap - before.heap, resident: f.resident - before.resident}
}

func residentBytes() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// median returns the middle value, and 0 of none.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile returns the value below which the given part of the values lies, interpolated.
func quantile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := part * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
