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

// machine describes the machine of the run.
func machine() string {
	return fmt.Sprintf("%s, %d cores, %s %s/%s. Absolute numbers depend on this machine; ratios within a table are what counts.",
		cpuModel(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// cpuModel returns the processor's name if the system reports it.
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
	resident int64 // resident memory of the process; 0 if the system does not report it
}

// measureMemory collects the garbage and returns the memory in use.
func measureMemory() footprint {
	runtime.GC() // The first one also lets finalizers run; only the next one frees what they held.
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return footprint{heap: int64(stats.HeapAlloc), resident: residentBytes()}
}

// less returns how much memory was added since before.
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

// median returns the middle value, or 0 if there are none.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile returns the value below which the given share of the values lies, interpolated.
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
