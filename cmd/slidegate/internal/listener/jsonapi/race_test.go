//go:build race

package jsonapi

const raceEnabled = true
