//! The files of the dashboard. Written by `npm run build` in `ui`.

use super::Asset;

pub(super) static ASSETS: [Asset; 3] = [
    Asset {
        path: "assets/index-pm44DkBr.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "\"25ac1eef992abe1d\"",
        bytes: include_bytes!("../../../assets/ui/index-pm44DkBr.js.gz"),
    },
    Asset {
        path: "assets/style-HDyP1F5I.css",
        content_type: "text/css; charset=utf-8",
        tag: "\"ee0fbc8ef5f2a134\"",
        bytes: include_bytes!("../../../assets/ui/style-HDyP1F5I.css.gz"),
    },
    Asset {
        path: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "\"089804453b757295\"",
        bytes: include_bytes!("../../../assets/ui/index.html.gz"),
    },
];
