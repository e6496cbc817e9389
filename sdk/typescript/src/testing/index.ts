export { assertEffects, runUntilIdle, type EffectsExpected, type IdleOptions } from "./expectations.js";
export { TestServer, type TestServerOptions } from "./server.js";
