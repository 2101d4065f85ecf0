// Package redistest starts real Redis or Valkey servers for tests: one, a cluster, or a master with a replica and
// sentinels, and a proxy that makes the way to them slow or cuts it. Every server is the test's own, on free ports of the
// loopback interface and in a temporary folder, and ends with the test. TEST_REDIS_SERVER names the program to run,
// in place of the installed one. Where no server is installed, tests are skipped unless TEST_REQUIRE asks for
// redis-server.
package redistest
