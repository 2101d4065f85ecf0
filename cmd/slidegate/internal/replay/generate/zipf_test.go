package generate

import (
	"math"
	"testing"
)

// The sampler is compared with the law itself, computed with powers and sums.
func TestZipfFollowsTheLaw(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 10, 1_000} {
		z, rng := newZipf(n), random(1, forKeys)
		const draws = 1_000_000
		count := make([]float64, n+1)
		for range draws {
			k := z.pick(rng)
			if k < 1 || k > n {
				t.Fatalf("%d is not in 1 to %d", k, n)
			}
			count[k]++
		}
		sum := 0.0
		for k := int64(1); k <= n; k++ {
			sum += math.Pow(float64(k), -1.125)
		}
		square := 0.0
		for k := int64(1); k <= n; k++ {
			want := draws * math.Pow(float64(k), -1.125) / sum
			square += (count[k] - want) * (count[k] - want) / want
		}
		checkNear(t, "chi-square", square, float64(n-1), math.Sqrt(2*float64(n-1))+1e-6)
	}
}

func TestZipfOfMany(t *testing.T) {
	z, rng := newZipf(maxKeys), random(1, forKeys)
	most, ones := int64(0), 0.0
	const draws = 1_000_000
	for range draws {
		k := z.pick(rng)
		if k < 1 || k > maxKeys {
			t.Fatalf("%d is not in 1 to %d", k, maxKeys)
		}
		if k == 1 {
			ones++
		}
		most = max(most, k)
	}
	// All weights sum to zeta(9/8) = 8.5862, less those beyond a billion, 8 / 10^(9/8) = 0.5999.
	p := 1 / (8.5862 - 0.5999)
	checkNear(t, "the share of the first", ones/draws, p, math.Sqrt(p*(1-p)/draws))
	if most < maxKeys/2 {
		t.Errorf("the largest of %d draws is %d", draws, most)
	}
}
