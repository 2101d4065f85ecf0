// Package redistest starts real Redis or Valkey servers for tests: one, a cluster, or a master with a replica and
// sentinels, and a proxy that slows or cuts the connection to them. Every server belongs to its test, on free ports of
// the loopback interface and in a temporary directory, and ends with the test. TEST_REDIS_SERVER names the program to
// run, instead of the installed one. Where no server is installed, tests are skipped unless TEST_REQUIRE names
// redis-server.
package redistest
