package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkLoadOverrides reads a policy with overrides in a file of their own.
func BenchmarkLoadOverrides(b *testing.B) {
	for _, n := range []int{1000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var list strings.Builder
			for i := range n {
				fmt.Fprintf(&list, "- {key: customer-%06d, limits: [%d/1m]}\n", i, 1+i%9000)
			}
			folder := write(b, map[string]string{"list.yaml": list.String(), "f.yaml": "policies:\n  api:\n    key: user\n    limits: [5/1m]\n    overrides_file: list.yaml\n"})
			b.ReportAllocs()
			for b.Loop() {
				file, err := Load(Options{}, filepath.Join(folder, "f.yaml"))
				if err != nil || len(file.Policies[0].Overrides) != n {
					b.Fatal(err)
				}
			}
		})
	}
}
