package generate

import (
	"math"
	"testing"
)

func moments(t *testing.T, seed uint64, n int64) (list []uint64) {
	t.Helper()
	a := newArrivals(random(seed, forArrivals), n)
	last := uint64(0)
	for {
		m, ok := a.moment()
		if !ok {
			break
		}
		if m < last {
			t.Fatalf("seed %d: got %d after %d, want ascending times", seed, m, last)
		}
		last = m
		list = append(list, m)
	}
	if int64(len(list)) != n {
		t.Fatalf("seed %d: got %d arrivals, want %d", seed, len(list), n)
	}
	return list
}

// checkNear fails unless got is within six standard deviations of want.
func checkNear(t *testing.T, what string, got, want, deviation float64) {
	t.Helper()
	if math.Abs(got-want) > 6*deviation {
		t.Errorf("%s: %.5g, want %.5g within %.2g", what, got, want, 6*deviation)
	}
}

// Independent arrivals are spread evenly over time, but no more evenly than chance.
func TestArrivalsAreUniform(t *testing.T) {
	const n, parts = 1_000_000, 37 // not a power of two, which the halving might favour
	var count [parts]float64
	for _, m := range moments(t, 1, n) {
		count[scale(m, int64(parts))]++
	}
	square := 0.0
	for _, c := range count {
		square += (c - n/parts) * (c - n/parts) / (n / parts)
	}
	checkNear(t, "chi-square", square, parts-1, math.Sqrt(2*(parts-1)))
}

// The gaps of a Poisson process are longer than their mean with a probability of 1/e.
func TestGapsAreExponential(t *testing.T) {
	const n = 1_000_000
	list := moments(t, 1, n)
	for _, times := range []float64{0.1, 1, 3} {
		longer := 0.0
		for i := 1; i < n; i++ {
			if float64(list[i]-list[i-1]) > times*0x1p64/n {
				longer++
			}
		}
		p := math.Exp(-times)
		checkNear(t, "gaps longer than the mean times a number", longer/n, p, math.Sqrt(p*(1-p)/n))
	}
}

// Of n arrivals, n/2 are before the middle on average, with a variance of n/4.
func TestHalvesVary(t *testing.T) {
	const n, seeds = 100, 4_000
	for _, share := range []float64{0.5, 0.3} {
		sum, squares := 0.0, 0.0
		for seed := range uint64(seeds) {
			before := 0.0
			for _, m := range moments(t, seed, n) {
				if float64(m) < share*0x1p64 {
					before++
				}
			}
			sum += before
			squares += before * before
		}
		mean, variance := n*share, n*share*(1-share)
		checkNear(t, "mean", sum/seeds, mean, math.Sqrt(variance/seeds))
		checkNear(t, "variance", squares/seeds-sum/seeds*sum/seeds, variance, variance*math.Sqrt(2.0/seeds))
	}
}

func TestFewArrivals(t *testing.T) {
	for n := range int64(200) {
		moments(t, 1, n)
	}
}

func TestHeads(t *testing.T) {
	rng := random(1, forArrivals)
	for _, n := range []int64{0, 1, 2, 63, 64, 65, 1_000} {
		const tries = 2_000
		sum := 0.0
		for range tries {
			h := heads(rng, n)
			if h < 0 || h > n {
				t.Fatalf("got %[2]d heads of %[1]d coins", n, h)
			}
			sum += float64(h)
		}
		checkNear(t, "heads", sum/tries, float64(n)/2, math.Sqrt(float64(n)/4/tries))
	}
}
