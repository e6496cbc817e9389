//! The files of the dashboard. Written by `npm run build` in `ui`.

use super::Asset;

pub(super) static ASSETS: [Asset; 3] = [
    Asset {
        path: "assets/index-lAda7FBk.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "\"613fff05791699ba\"",
        bytes: include_bytes!("../../../assets/ui/index-lAda7FBk.js.gz"),
    },
    Asset {
        path: "assets/style-B6QPKiGx.css",
        content_type: "text/css; charset=utf-8",
        tag: "\"bb429a28b1f5cb9a\"",
        bytes: include_bytes!("../../../assets/ui/style-B6QPKiGx.css.gz"),
    },
    Asset {
        path: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "\"9e08377378b97ffa\"",
        bytes: include_bytes!("../../../assets/ui/index.html.gz"),
    },
];
