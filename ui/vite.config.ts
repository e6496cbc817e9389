import { defineConfig } from "vite";

// One script and one sheet: the whole is small, and a page that is open keeps working while the server is upgraded.
export default defineConfig({
  base: "/ui/",
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: { output: { codeSplitting: false } },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
