//go:build !race

package config

import "testing"

func skipUnderRace(*testing.T) {}
